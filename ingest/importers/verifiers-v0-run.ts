/** The run of a verifiers v0 results file: from metadata.json where it lies beside, else from the rows. Pure. */
import { createHash } from 'node:crypto';
import { makeEvent, type ImportedEvent } from './event-maker.ts';
import { compact, idOf, isRecord, nameOf, omit, pick, recordOf, textOf, type Json, type JsonRecord } from './json-value.ts';
import { timesOf, isHosted } from './verifiers-v0-row.ts';
import type { ImportOptions } from './verifiers-v1.ts';

export type V0Run = {
  readonly run: string;
  readonly event: ImportedEvent;
  readonly env: JsonRecord | null;
  readonly model: string | null;
  readonly tools: Json | undefined;
  readonly groupSize: number | null;
};

/** Results and averages of metadata.json; everything else in it is configuration. */
const RESULTS = /^(avg_|pass_|time$|time_ms$|date$|usage$|cost$|tools$|version_info$|path_to_save$)/;

/**
 * The run that `firstRow` belongs to. A hosted row names it. Else the caller's, else `<env>--<model>--<12 hex digits>` of the sha256 of the first row's bytes:
 * a moved or growing file stays the same run, and averages that metadata.json changes on the way do not matter.
 */
export function v0Run(firstRow: { value: JsonRecord; bytes: Uint8Array }, metadata: JsonRecord | null, options: ImportOptions): V0Run {
  const row = firstRow.value;
  const described = isRecord(metadata?.['run']) ? metadata['run'] : metadata;
  const isOther = isHosted(row) && described?.['id'] !== undefined && described['id'] !== row['run_id'];
  const own = isOther ? null : described;
  const envId = textOf(row['env_name']) ?? textOf(own?.['env_id']) ?? textOf(own?.['env']);
  const model = nameOf(own?.['model']) ?? nameOf(own?.['base_model']);
  const run = idOf(isHosted(row) ? row['run_id'] : undefined) ?? options.run ?? derivedRun(envId, model, firstRow.bytes);
  const args = recordOf(own?.['env_args']) ?? undefined;
  const env = envId === null || envId.length > 1024 ? null : compact({ id: envId, args });
  const results = Object.keys(own ?? {}).filter((key) => RESULTS.test(key));
  const data = compact({
    kind: isHosted(row) ? 'train' : 'eval',
    name:
      (nameOf(own?.['name']) ??
        [envId, model]
          .filter((part) => part !== null && part !== '')
          .join('--')
          .slice(0, 1024)) ||
      undefined,
    model: model ?? undefined,
    config: own === null || own === undefined ? undefined : omit(own, new Set(results)),
    envs: env === null ? undefined : [env],
    extra: compact({ source: 'verifiers.v0', verifiers: results.length > 0 ? pick(own as JsonRecord, results) : undefined }),
  });
  const { started, created } = timesOf(row);
  const size = own?.['rollouts_per_example'];
  return {
    run,
    event: makeEvent({ project: options.project, run }, 'run.started', '', started ?? created ?? 0, data),
    env,
    model,
    tools: own?.['tools'],
    groupSize: typeof size === 'number' && Number.isSafeInteger(size) && size > 0 ? size : null,
  };
}

function derivedRun(env: string | null, model: string | null, bytes: Uint8Array): string {
  const digest = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
  const part = (text: string | null): string => (text ?? 'unknown').toWellFormed().replaceAll('/', '--').slice(0, 60);
  return `${part(env)}--${part(model)}--${digest}`;
}
