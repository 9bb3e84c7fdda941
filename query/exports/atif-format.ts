/** Traces as ATIF trajectories (Harbor's interchange format), one per line, from the original events. */
import { TapedeckError } from '../../base/errors.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { readEvent } from '../../events/read-event.ts';
import { upcast } from '../../events/upcast.ts';
import { rolloutSlices, type RolloutEventsOptions } from '../operations/rollout-events.ts';
import { trajectoryOf, type AtifEvent, type Trajectory } from './atif-trajectory.ts';
import { rowsOf } from './conversation-formats.ts';
import { exactJson } from './exact-json.ts';
import type { ExportFormat, ExportSink } from './export-format.ts';

/** What no trajectory has a place for, and what is not counted. */
const NEVER = { 'sampling parameters': null, 'token masks, advantages and loss weights': null, 'times of calls and tools': null };

export function atifFormat(parts: RolloutEventsOptions): ExportFormat {
  return {
    name: 'atif',
    about: 'traces as ATIF-v1.7 trajectories, one per line: the newest branch with tool results, usage and token ids; no rewards, no errors; traces without a message are left out',
    extension: 'atif.jsonl',
    mediaType: 'application/jsonl',
    of: 'traces',
    write: async (request, sink, signal) => {
      const left: Record<string, number> = {};
      const incomplete: string[] = [];
      const count = (what: string, times = 1): void => {
        if (times > 0) left[what] = (left[what] ?? 0) + times;
      };
      for await (const row of rowsOf(parts.store, request, ['run', 'rollout', 'trace'], signal, () => {})) {
        const key = row as { run: string; rollout: string; trace: string };
        const events: AtifEvent[] = [];
        for await (const slice of rolloutSlices({ project: request.project, ...key }, parts, signal)) events.push(exactEvent(slice));
        const trajectory = trajectoryOf(key, events, count);
        if (trajectory === null) incomplete.push(key.trace);
        else await writeTrajectory(trajectory, sink);
      }
      return { asOf: null, left: { ...left, ...NEVER }, incomplete };
    },
  };
} // prettier-ignore

function exactEvent(slice: Uint8Array): AtifEvent {
  const checked = readEvent(slice);
  if (!checked.ok) throw new TapedeckError(checked.error.code, checked.error.message);
  const exact = upcast(decodeCbor(slice, 0, slice.length, { wholeFloats: true })) as { data: Record<string, unknown> };
  return { type: checked.value.type, time: checked.value.time, trace: checked.value.trace ?? null, data: exact.data };
}

async function writeTrajectory({ head, steps, tail }: Trajectory, sink: ExportSink): Promise<void> {
  await sink.write(Buffer.from(`${exactJson(head).slice(0, -1)},"steps":[`));
  let isFirst = true;
  for (const step of steps) {
    await sink.write(Buffer.from(`${isFirst ? '' : ','}${exactJson(step)}`));
    isFirst = false;
  }
  await sink.write(Buffer.from(`],${exactJson(tail()).slice(1)}\n`));
  sink.count(1);
}
