/**
 * The interactive form of `tapedeck sql`: statements of several lines until `;`, a history, completion by tab, and the commands \d, \d view, \timing, \q. Ctrl-C stops the query that runs,
 * or drops what was typed; Ctrl-D ends.
 */
import { createInterface, type Interface } from 'node:readline';
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { Paint } from '../render/paint.ts';
import { renderTable, type ResultSet } from '../render/result-table.ts';
import { renderError } from '../render/server-error.ts';
import { completions, type Names } from './complete.ts';
import { statementEnd } from './statement-end.ts';

export type ShellOptions = {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  /** False: no editing, as for streams that are no terminal. */
  readonly isTerminal: boolean;
  readonly columns: () => number;
  readonly paint: Paint;
  readonly clock: Clock;
  readonly names: Names;
  /** What a column means, for `\d view`. */
  readonly meaningOf: (view: string, column: string) => string;
  /** Newest first. */
  readonly history: readonly string[];
  readonly ask: (query: string, signal: AbortSignal) => Promise<ResultSet>;
};

const PROMPT = 'tapedeck> ';
const MORE = '     ...> ';
const HELP = 'A statement ends with ;   \\d lists views   \\d <view> its columns   \\timing shows times   \\q ends   Ctrl-C stops a query';

/** Runs until the end of the input or \q; answers the history, newest first. */
export async function runShell(options: ShellOptions): Promise<readonly string[]> {
  const { input, output, clock, paint, names } = options;
  let pending = '';
  let timing = false;
  let history: readonly string[] = options.history;
  let running: AbortController | null = null;
  const lines: Interface = createInterface({
    input,
    output,
    terminal: options.isTerminal,
    history: [...options.history],
    historySize: 1_000,
    removeHistoryDuplicates: true,
    completer: (line: string) => completions(line, pending, names),
  });
  lines.on('history', (all: string[]) => (history = [...all]));
  lines.on('SIGINT', () => {
    if (running !== null) running.abort();
    else {
      pending = '';
      output.write('^C\n');
      // the line that is being typed is readline's: to its end, and away with it
      lines.write(null, { ctrl: true, name: 'e' });
      lines.write(null, { ctrl: true, name: 'u' });
      prompt();
    }
  });
  const print = (text: readonly string[]): void => void output.write(text.map((line) => `${line}\n`).join(''));
  const prompt = (): void => {
    lines.setPrompt(pending.trim() === '' ? PROMPT : MORE);
    lines.prompt();
  };

  const answer = async (query: string, show: (result: ResultSet) => string[]): Promise<void> => {
    running = new AbortController();
    const started = clock.monotonicMs();
    try {
      print(show(await options.ask(query, running.signal)));
      if (timing) print([paint.dim(`${Math.round(clock.monotonicMs() - started)} ms`)]);
    } catch (error) {
      const known = isTapedeckError(error) ? error : new TapedeckError('internal', 'the answer broke off');
      print(known.code === 'aborted' ? ['stopped'] : renderError(known, paint));
    } finally {
      running = null;
    }
  };
  const table = (result: ResultSet): string[] => renderTable(result, options.columns(), paint);

  /** True when the shell ends. */
  const command = async (line: string): Promise<boolean> => {
    const [name, view, ...rest] = line.replace(/\s*;$/, '').split(/\s+/);
    if (name === '\\q') return true;
    if (name === '\\timing' && view === undefined) {
      timing = !timing;
      print([`times are ${timing ? 'shown' : 'not shown'}`]);
    } else if (name === '\\d' && view === undefined) await answer('SHOW TABLES', table);
    else if (name === '\\d' && view !== undefined && /^\w+$/.test(view) && rest.length === 0) {
      await answer(`DESCRIBE ${view}`, (result) => table(described(result, view, options.meaningOf)));
    } else print([HELP]);
    return false;
  };

  print([HELP]);
  prompt();
  for await (const line of lines) {
    const trimmed = line.trim();
    if (pending.trim() === '' && trimmed.startsWith('\\')) {
      if (await command(trimmed)) break;
    } else {
      pending += `${line}\n`;
      for (let end = statementEnd(pending); end !== null; end = statementEnd(pending)) {
        const statement = pending.slice(0, end - 1).trim();
        pending = pending.slice(end).replace(/^\s*\n/, '');
        if (statement !== '') await answer(statement, table);
      }
    }
    prompt();
  }
  lines.close();
  return history;
}

/** The columns of a view with their meanings, in place of the engine's empty comments. */
function described(result: ResultSet, view: string, meaningOf: ShellOptions['meaningOf']): ResultSet {
  const meta = ['name', 'type', 'meaning'].map((name) => ({ name, type: 'String' }));
  const data = result.data.map(({ name, type }) => ({ name, type, meaning: meaningOf(view, String(name)) }));
  return { meta, data };
}
