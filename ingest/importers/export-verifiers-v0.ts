/** The events of a rollout back to one row of verifiers v0, and those of its run to metadata.json. Rows that came through the importer come back equal. */
import { exactEvent } from './exact-event.ts';
import { compact, isRecord, itemsOf, recordOf, textOf, type Json, type JsonRecord } from './json-value.ts';
import { withRest } from './rest.ts';
import { rowBack, type V0Event, type V0Row } from './verifiers-v0-back.ts';

/**
 * The row of one rollout from its events in log order (slices with large values put back). Columns that hosted rows hold as JSON text come back decoded. Null when there
 * is no `rollout.started`. Throws what `readEvent` finds wrong.
 */
export async function rowOfRollout(slices: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<V0Row | null> {
  const events: V0Event[] = [];
  for await (const slice of slices) events.push(exactEvent(slice));
  const found = rowBack(events);
  if (found === null) return null;
  const ended = events.findLast(({ type }) => type === 'rollout.ended')?.data;
  return { row: withRest(found.row, ended?.['extra']), left: found.left };
} // prettier-ignore

/**
 * metadata.json of a run from its `run.started` events (the last one counts, as a run that is described again): of an imported run what its metadata.json said, its averages
 * included; of others env, arguments and model. `{}` when nothing is known.
 */
export async function metadataOfRun(slices: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<JsonRecord> {
  let data: JsonRecord = {};
  for await (const slice of slices) {
    const event = exactEvent(slice);
    if (event.type === 'run.started') data = event.data;
  }
  const extra = recordOf(data['extra']) ?? {};
  const config = recordOf(data['config']) ?? {};
  const results = recordOf(extra['verifiers']) ?? {};
  if (extra['source'] === 'verifiers.v0') return { ...config, ...results };
  const env = recordOf(itemsOf(data['envs'])[0]) ?? {};
  const args: Json | undefined = isRecord(env['args']) ? env['args'] : undefined;
  const known = { env_id: textOf(env['id']) ?? undefined, env_args: args, model: textOf(data['model']) ?? undefined, name: textOf(data['name']) ?? undefined };
  return compact({ ...known, extra: Object.keys(config).length > 0 ? { config } : undefined });
} // prettier-ignore
