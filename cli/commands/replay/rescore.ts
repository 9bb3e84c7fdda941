/** `tapedeck replay rescore`: rewards again, under new code or another judge, over what is stored. The module runs here; its scores become events that supersede the old ones. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Command } from 'commander';
import { z } from 'zod';
import { systemClock } from '../../../base/clock.ts';
import { withDeadline } from '../../../base/deadline.ts';
import { TapedeckError } from '../../../base/errors.ts';
import { systemRandom } from '../../../base/random.ts';
import { uuidV7 } from '../../../base/uuid.ts';
import { encodeEvent } from '../../../events/codec/cbor-encode.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { httpSink } from '../../../ingest/importers/http-sink.ts';
import { rolloutView, type RolloutView } from '../../../query/replay/rescore/rollout-view.ts';
import { compared, readScores, rewardData, type Rescored, type ScoreSource } from '../../../query/replay/rescore/scores.ts';
import { changesOf, rescoreTable } from '../../../query/replay/rescore/table.ts';
import type { Config } from '../../config.ts';
import { write } from '../../render/output.ts';
import { keyedFetch } from '../../server-key.ts';
import { requestJson } from '../../server-request.ts';
import { carried } from './carried.ts';
import { eventsOf, findRollout, type Server } from './rollout-source.ts';
import { factor, wholeNumber } from './session-options.ts';

type Options = Server & {
  readonly module: string;
  readonly run?: string;
  readonly kind?: 'code' | 'model';
  readonly name?: string;
  readonly version?: string;
  readonly parallel: number;
  readonly timeout: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
};

/** `default` scores; the rest says who scores. */
const scoringModule = z.looseObject({
  default: z.custom<(rollout: RolloutView, context: { readonly signal: AbortSignal }) => unknown>((value) => typeof value === 'function', {
    message: 'must be a function (rollout) => score, scores or null',
  }),
  name: z.string().min(1).optional(),
  version: z.string().min(1).optional(),
  kind: z.enum(['code', 'model']).optional(),
});

const SEND_EVENTS = 500;

export function rescoreCommand(config: Pick<Config, 'url' | 'project'>): Command {
  return new Command('rescore')
    .description('score stored rollouts again with a module of yours')
    .argument('[rollout...]', 'ids of rollouts (default: all of the run)')
    .requiredOption('--module <path>', 'JavaScript or TypeScript module: export default (rollout) => ({name, score, …})')
    .option('--run <id>', 'run of the rollouts')
    .option('--name <name>', "who scores (default: the module's `name`, or its file name)")
    .option('--version <text>', "version of the scorer (default: the module's `version`, or a hash of its file)")
    .option('--kind <kind>', "code or model (default: the module's `kind`, or code)")
    .option('--parallel <n>', 'how many rollouts are scored at once', wholeNumber, 8)
    .option('--timeout <seconds>', 'one score may take this long', factor, 300)
    .option('--dry-run', 'print what would change, and write nothing')
    .option('--url <url>', 'server to read from and write to', config.url)
    .option('--project <id>', 'project of the run', config.project ?? DEFAULT_PROJECT)
    .option('--json', 'print the result as JSON')
    .action((rollouts: readonly string[], options: Options) => carried((signal) => rescore(rollouts, options, signal)));
}

type Failed = { readonly rollout: string; readonly error: string };

async function rescore(ids: readonly string[], options: Options, signal: AbortSignal): Promise<number> {
  if (options.parallel < 1) throw new TapedeckError('usage', '--parallel must be at least 1');
  const { score, source } = await openModule(options);
  const places = ids.length > 0 ? await Promise.all(ids.map((id) => findRollout(options, id, options.run))) : await rolloutsOf(options);
  const rescored: Rescored[] = [];
  const views = new Map<string, RolloutView>();
  const failed: Failed[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < places.length && !signal.aborted) {
      const place = places[next++] as (typeof places)[number];
      const view = rolloutView(await eventsOf(options, place));
      if (view === null) {
        failed.push({ rollout: place.rollout, error: 'it has no rollout.started' });
        continue;
      }
      const scores = await scoresOf(view, score, options.timeout, signal);
      if (!scores.ok) failed.push({ rollout: place.rollout, error: scores.error.message });
      else {
        views.set(view.rollout, view);
        rescored.push(...compared(scores.value, view, source));
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(options.parallel, places.length) }, lane));
  signal.throwIfAborted();
  const order = new Map(places.map(({ rollout }, i) => [rollout, i]));
  const sorted = rescored.toSorted((a, b) => (order.get(a.rollout) ?? 0) - (order.get(b.rollout) ?? 0));
  const changed = sorted.filter(({ isSame }) => !isSame);
  const sent = options.dryRun === true ? null : await send(changed, views, source, options, signal);
  await tell({ source, rollouts: places.length, rescored: sorted, failed, sent }, options);
  return failed.length > 0 ? 1 : 0;
}

async function scoresOf(
  view: RolloutView,
  score: (view: RolloutView, context: { readonly signal: AbortSignal }) => unknown,
  seconds: number,
  signal: AbortSignal,
): Promise<ReturnType<typeof readScores>> {
  try {
    const value = await withDeadline(
      systemClock,
      seconds * 1000,
      `the score of ${view.rollout}`,
      async (within) => score(view, { signal: within }),
      signal,
    );
    return readScores(value, view);
  } catch (error) {
    if (signal.aborted) throw error;
    return { ok: false, error: { code: 'invalid_value', message: error instanceof Error ? error.message : String(error) } };
  }
}

async function openModule(options: Options): Promise<{ score: z.output<typeof scoringModule>['default']; source: ScoreSource }> {
  const path = resolve(options.module);
  let loaded: unknown;
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
    loaded = await import(pathToFileURL(path).href);
  } catch (cause) {
    throw new TapedeckError('usage', `${options.module} cannot be loaded: ${(cause as Error).message}`, { cause });
  }
  const parsed = scoringModule.safeParse({ ...(loaded as object) });
  if (!parsed.success)
    throw new TapedeckError(
      'usage',
      `${options.module}: ${parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ')}`,
    );
  const kind = options.kind ?? parsed.data.kind ?? 'code';
  if (kind !== 'code' && kind !== 'model') throw new TapedeckError('usage', `--kind must be code or model`);
  const version = options.version ?? parsed.data.version ?? createHash('sha256').update(bytes).digest('hex').slice(0, 12);
  return {
    score: parsed.data.default,
    source: { kind, name: options.name ?? parsed.data.name ?? basename(path).replace(/\.[^.]+$/, ''), version },
  };
}

async function rolloutsOf({ url, project, run }: Options): Promise<{ run: string; rollout: string }[]> {
  if (run === undefined) throw new TapedeckError('usage', 'name rollouts, or a run with --run');
  const found: { run: string; rollout: string }[] = [];
  for (let after: string | null = ''; after !== null;) {
    const query = new URLSearchParams({ project, after, limit: '1000' });
    const page: { rollouts: string[]; next: string | null } = await requestJson(
      url,
      `/v1/runs/${encodeURIComponent(run)}/rollouts?${query.toString()}`,
    );
    found.push(...page.rollouts.map((rollout) => ({ run, rollout })));
    after = page.next;
  }
  if (found.length === 0) throw new TapedeckError('not_found', `run ${run} has no rollouts in project ${project}`);
  return found;
}

type Sent = { readonly accepted: number; readonly rejected: readonly { readonly code: string; readonly message: string }[] };

async function send(
  changed: readonly Rescored[],
  views: ReadonlyMap<string, RolloutView>,
  source: ScoreSource,
  options: Options,
  signal: AbortSignal,
): Promise<Sent> {
  const sink = httpSink({ url: options.url, fetch: keyedFetch, clock: systemClock, random: systemRandom });
  const slices = changed.map((each) => {
    const { run, group, rollout } = views.get(each.rollout) as RolloutView;
    const { scope, trace } = each.score;
    return encodeEvent({
      v: 1,
      id: uuidV7(systemClock, systemRandom),
      type: 'reward.assigned',
      ...(options.project !== DEFAULT_PROJECT && { project: options.project }),
      run,
      ...(group !== null && { group }),
      rollout,
      ...(scope !== 'rollout' && { trace }),
      time: systemClock.nowMicros(),
      data: rewardData(each, source),
    });
  });
  const total = { accepted: 0, rejected: [] as { code: string; message: string }[] };
  for (let at = 0; at < slices.length; at += SEND_EVENTS) {
    const { accepted, rejected } = await sink(slices.slice(at, at + SEND_EVENTS), signal);
    total.accepted += accepted;
    total.rejected.push(...rejected);
  }
  if (total.rejected.length > 0)
    throw new TapedeckError('invalid_event', `${total.rejected.length} rewards were refused: ${total.rejected[0]?.message ?? ''}`);
  return total;
}

type Told = {
  readonly source: ScoreSource;
  readonly rollouts: number;
  readonly rescored: readonly Rescored[];
  readonly failed: readonly Failed[];
  readonly sent: Sent | null;
};

async function tell({ source, rollouts, rescored, failed, sent }: Told, options: Options): Promise<void> {
  if (options.json === true) {
    const result = { source, rollouts, changes: changesOf(rescored), written: sent?.accepted ?? null, failed, rewards: rescored };
    return void (await write(process.stdout, `${JSON.stringify(result, finite, 2)}\n`));
  }
  await write(process.stdout, rescoreTable(rescored, source));
  for (const { rollout, error } of failed) await write(process.stdout, `not scored: ${rollout}: ${error}\n`);
  const ending = sent === null ? 'nothing is written (--dry-run)' : `${sent.accepted} rewards written`;
  await write(process.stdout, `${ending}\n`);
}

/** What JSON numbers cannot say. */
function finite(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? { $float: String(value) } : value;
}
