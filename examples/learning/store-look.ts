/** Asks a server, as anybody may, whether anything but one run was recorded there. */
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';

const audit = z.object({ lag: z.int(), partitions: z.array(z.object({ topic: z.string(), end: z.int() })) });
const count = z.object({ data: z.array(z.object({ own: z.coerce.number(), others: z.coerce.number() })).length(1) });
const LOOK_MS = 250;

/** Resolves when the server answers questions. Throws the signal's reason. */
export async function waitForServer(url: string, clock: Clock, signal: AbortSignal): Promise<void> {
  for (;;) {
    const answer = await fetch(new URL('/readyz', url), { signal }).catch(() => null);
    await answer?.body?.cancel();
    if (answer?.ok === true) return;
    await clock.sleep(LOOK_MS, signal);
  }
}

/** Whether every event of the log is of `run`, in whatever project. Waits until all of them are stored, so nothing should be recorded meanwhile. */
export async function holdsOnly(run: string, url: string, clock: Clock, signal: AbortSignal): Promise<boolean> {
  for (;;) {
    const { lag, partitions } = audit.parse(await json(await fetch(new URL('/v1/audit', url), { signal })));
    const all = partitions.reduce((sum, { topic, end }) => (topic === 'events' ? sum + end : sum), 0);
    if (all === 0) return true;
    if (lag === 0) return all === (await eventsOf(run, url, signal)).own;
    await clock.sleep(LOOK_MS, signal);
  }
}

/** Whether the default project holds events of other runs, as far as they are stored. */
export async function holdsOthers(run: string, url: string, signal: AbortSignal): Promise<boolean> {
  return (await eventsOf(run, url, signal)).others > 0;
}

async function eventsOf(run: string, url: string, signal: AbortSignal): Promise<{ own: number; others: number }> {
  const query =
    "SELECT countIf(run = {run:String}) AS own, countIf(run IS NULL OR run != {run:String}) AS others FROM events WHERE topic = 'events'";
  const body = JSON.stringify({ query, params: { run }, format: 'json' });
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal };
  const answer = await fetch(new URL('/v1/sql', url), init);
  // a project nobody has recorded into is not there
  if (answer.status === 404) return { own: 0, others: 0 };
  const [counted] = count.parse(await json(answer)).data;
  return counted as { own: number; others: number };
}

async function json(answer: Response): Promise<unknown> {
  if (!answer.ok) throw new Error(`${answer.url} answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
  return answer.json();
}
