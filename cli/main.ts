/** The tapedeck command. Each subcommand is a file of its own, loaded only when asked for. */
import { Command } from 'commander';
import { isTapedeckError } from '../base/errors.ts';
import { accountExternalMemory } from '../base/external-memory.ts';
import { readConfig, type Config } from './config.ts';

type Make = (config: Config) => Command;

const COMMANDS: Readonly<Record<string, { readonly about: string; readonly load: () => Promise<Make> }>> = {
  serve: { about: 'run the server (or some of its roles)', load: async () => (await import('./commands/serve.ts')).serveCommand },
  import: { about: 'import rollouts from files', load: async () => (await import('./commands/import.ts')).importCommand },
  tail: {
    about: 'send rollouts while they are written',
    load: async () => (await import('./commands/tail.ts')).tailCommand,
  },
  export: { about: 'export rollouts to files', load: loadExport },
  feed: { about: 'create, watch and explain trainer feeds', load: async () => (await import('./commands/feed/feed.ts')).feedCommand },
  sql: { about: 'ask a question in SQL', load: async () => (await import('./commands/sql.ts')).sqlCommand },
  trace: { about: 'show the graph of one trace', load: async () => (await import('./commands/trace.ts')).traceCommand },
  tokenizers: {
    about: 'register vocabularies, so that tokens can be shown as text',
    load: async () => (await import('./commands/tokenizers.ts')).tokenizersCommand,
  },
  replay: {
    about: 'play what was recorded again, score it again, fork it',
    load: async () => (await import('./commands/replay/replay.ts')).replayCommand,
  },
  report: { about: 'eval statistics of a run, compared and gated', load: async () => (await import('./commands/report.ts')).reportCommand },
  diff: { about: 'two rollouts side by side', load: async () => (await import('./commands/diff.ts')).diffCommand },
  audit: { about: 'prove that what was accepted is stored', load: async () => (await import('./commands/audit.ts')).auditCommand },
  rebuild: { about: 'build every table again from the log', load: async () => (await import('./commands/rebuild.ts')).rebuildCommand },
  compact: { about: 'give back the disk space of deleted runs', load: async () => (await import('./commands/compact.ts')).compactCommand },
  'dead-letters': {
    about: 'events that could not be stored',
    load: async () => (await import('./commands/dead-letters.ts')).deadLettersCommand,
  },
  keys: { about: 'make, list and revoke API keys', load: async () => (await import('./commands/keys.ts')).keysCommand },
  migrate: { about: 'bring the schema of the store up to date', load: async () => (await import('./commands/migrate.ts')).migrateCommand },
  config: { about: 'print every setting', load: async () => (await import('./commands/config.ts')).configCommand },
};

async function loadExport(): Promise<Make> {
  const { exportCommand } = await import('./commands/export/export.ts');
  const { openEpisodeSource } = await import('./episode-source.ts');
  return (config) => exportCommand(config, openEpisodeSource);
}

/** Wrong use of a command at any depth ends as wrong use of the program does. */
function inheriting(parent: Command, command: Command): Command {
  command.copyInheritedSettings(parent);
  for (const child of command.commands) inheriting(command, child);
  return command;
}

/** Runs one command; the exit code is 0 when all went well, 1 when not, 2 for wrong use (unless the command says otherwise). */
async function main(argv: readonly string[]): Promise<void> {
  const program = new Command('tapedeck').description(
    'Event-sourced trace platform for RL post-training and evals of language-model agents',
  );
  program.version('0.1.0').showHelpAfterError().enablePositionalOptions();
  program.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  const wanted = argv.find((argument) => !argument.startsWith('-'));
  for (const [name, { about, load }] of Object.entries(COMMANDS)) {
    if (name === wanted) program.addCommand(inheriting(program, (await load())(readConfig()).name(name).description(about)));
    else program.command(name).description(about);
  }
  await program.parseAsync([...argv], { from: 'user' });
}

accountExternalMemory();
try {
  await main(process.argv.slice(2));
} catch (error) {
  if (isTapedeckError(error)) console.error(`tapedeck: ${error.message} (${error.code})`);
  else console.error(error);
  process.exitCode = 1;
}
