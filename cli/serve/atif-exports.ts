/** Traces as ATIF trajectories (Harbor's interchange format), one per line, from the original events: the importers know how to write them. */
import { exactJson } from '../../ingest/importers/atif/exact-json.ts';
import { trajectoryOf, type AtifEvent, type Trajectory } from '../../ingest/importers/atif/trajectory.ts';
import { exactEvent } from '../../ingest/importers/exact-event.ts';
import { rowsOf } from '../../query/exports/conversation-formats.ts';
import type { ExportFormat, ExportSink } from '../../query/exports/export-format.ts';
import { rolloutSlices, type RolloutEventsOptions } from '../../query/operations/rollout-events.ts';

/** What no trajectory has a place for, and what is not counted. */
const NEVER = {
  'requests, endpoints, finish reasons and sampling parameters but reasoning_effort': null,
  'token masks, advantages and loss weights, and which message of a prompt its tokens are of': null,
  'times of calls and tools': null,
  'env, task, group and what the rollout was made for': null,
};

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

async function writeTrajectory({ head, steps, tail }: Trajectory, sink: ExportSink): Promise<void> {
  await sink.write(Buffer.from(`${exactJson(head).slice(0, -1)},"steps":[`));
  let isFirst = true;
  for (const step of steps) {
    await sink.write(Buffer.from(`${isFirst ? '' : ','}${exactJson(step)}`));
    isFirst = false;
  }
  const rest = exactJson(tail()).slice(1);
  await sink.write(Buffer.from(`]${rest === '}' ? '' : ','}${rest}\n`));
  sink.count(1);
}
