import { Command, InvalidArgumentError } from 'commander';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { BranchTokens, TraceAnswer } from '../../query/traces/trace-answer.ts';
import { Vocabulary } from '../../query/vocabularies/vocabulary.ts';
import type { Config } from '../config.ts';
import { askServer } from '../render/ask-server.ts';
import { terminalOf, tolerateClosedPipe, write } from '../render/output.ts';
import { renderError } from '../render/server-error.ts';
import { renderTokens } from '../render/token-lines.ts';
import { renderTrace } from '../render/trace-tree.ts';

type Options = {
  readonly url: string;
  readonly project?: string;
  readonly run?: string;
  readonly tokens?: number | true;
  readonly from?: number;
  readonly limit?: number;
  readonly vocabulary?: string;
  readonly json?: boolean;
};

const PREVIEW_CHARS = 400;

/** `tapedeck trace <id>`: the graph of a trace as a tree; `--tokens [leaf]` the token streams of one branch. */
export function traceCommand(config: Pick<Config, 'url' | 'project'>): Command {
  return new Command('trace')
    .argument('<id>', 'id of the trace')
    .option('--url <url>', 'server to ask', config.url)
    .option('--project <id>', 'project of the trace', config.project)
    .option('--run <id>', 'run of the trace, when several runs use the same id')
    .option(
      '--tokens [leaf]',
      'ids, mask and log-probabilities of the branch that ends in this node (default: the last branch)',
      wholeNumber,
    )
    .option(
      '--vocabulary <hash>',
      'show tokens as text, by this vocabulary (default: the one the calls of the trace name, if it is registered)',
    )
    .option('--from <index>', 'first node to show', wholeNumber)
    .option('--limit <n>', 'how many nodes to show', wholeNumber)
    .option('--json', 'the answer of the server as it is')
    .addHelpText(
      'after',
      '\nMarks: ● sampled by the model; 12t tokens; "call 3:stop" the model call and its finish reason; branches are named by their leaf node.',
    )
    .action(async (id: string, options: Options) => {
      tolerateClosedPipe(process.stdout);
      try {
        await show(id, options);
      } catch (error) {
        if (!isTapedeckError(error)) throw error;
        for (const line of renderError(error, terminalOf(process.stderr).paint)) process.stderr.write(`${line}\n`);
        process.exitCode = 1;
      }
    });
}

function wholeNumber(given: string): number {
  if (!/^\d{1,10}$/.test(given)) throw new InvalidArgumentError('must be a whole number');
  return Number(given);
}

async function show(id: string, options: Options): Promise<void> {
  const { columns, paint } = terminalOf(process.stdout);
  const query = new URLSearchParams();
  for (const name of ['project', 'run', 'from', 'limit'] as const) if (options[name] !== undefined) query.set(name, String(options[name]));
  const ask = async (extra: Readonly<Record<string, string>>): Promise<Response> => {
    const all = new URLSearchParams([...query, ...Object.entries(extra)]);
    return askServer(options.url, `/v1/traces/${encodeURIComponent(id)}?${all.toString()}`);
  };
  const lines = async (texts: readonly string[]): Promise<void> => {
    for (const line of texts) if (!(await write(process.stdout, `${line}\n`))) return;
  };
  if (options.tokens !== undefined) {
    const leaf = options.tokens === true ? await lastLeaf(ask) : options.tokens;
    const response = await ask({ tokens: String(leaf), encoding: 'arrays' });
    if (options.json === true) return lines([await response.text()]);
    return lines(renderTokens((await response.json()) as BranchTokens, paint, await findVocabulary(id, options)));
  }
  if (options.json === true) return lines([await (await ask({})).text()]);
  return lines(renderTrace((await (await ask({ chars: String(PREVIEW_CHARS) })).json()) as TraceAnswer, columns, paint));
}

/** The vocabulary that was named, or the one that the calls of the trace name, when it is registered. */
async function findVocabulary(id: string, { url, project, run, vocabulary }: Options): Promise<Vocabulary | null> {
  const hash =
    vocabulary ?? (await tokenizerOf(id, { url, ...(project === undefined ? {} : { project }), ...(run === undefined ? {} : { run }) }));
  if (hash === null) return null;
  try {
    const table = await (await askServer(url, `/v1/tokenizers/${encodeURIComponent(hash)}`)).arrayBuffer();
    const read = Vocabulary.read(new Uint8Array(table));
    if (!read.ok) throw new TapedeckError(read.error.code, read.error.message);
    return read.value;
  } catch (error) {
    if (vocabulary === undefined && isTapedeckError(error, 'not_found')) return null;
    throw error;
  }
}

/** The hash that calls of the trace say their tokenizer has; null when they say none, or none that a vocabulary can have. */
async function tokenizerOf(id: string, { url, ...where }: Pick<Options, 'url' | 'project' | 'run'>): Promise<string | null> {
  const query = new URLSearchParams({
    ...where,
    trace: id,
    fields: 'tokenizer_hash',
    'tokenizer_hash[null]': 'false',
    limit: '1',
    count: 'none',
  });
  const { rows } = (await (await askServer(url, `/v1/calls?${query.toString()}`)).json()) as { rows: { tokenizer_hash: string }[] };
  return /^(?:sha256:)?([0-9a-f]{64})$/.exec(rows[0]?.tokenizer_hash ?? '')?.[1] ?? null;
}

async function lastLeaf(ask: (extra: Readonly<Record<string, string>>) => Promise<Response>): Promise<number> {
  const answer = (await (await ask({ limit: '1', chars: '1' })).json()) as TraceAnswer;
  const last = answer.graph.lastLeaf;
  if (last === null) throw new TapedeckError('not_found', 'the trace has no nodes yet');
  return last;
}
