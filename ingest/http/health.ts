import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { TapedeckError } from '../../base/errors.ts';
import { HEALTHZ_SCHEMA, METRICS_SCHEMA, READYZ_SCHEMA } from './openapi.ts';

/** One thing that must be there before work can be done: null when it is, else what it waits for. */
export type ReadyCheck = { readonly name: string; waitsFor(signal: AbortSignal): Promise<string | null> | string | null };

export type HealthPorts = {
  readonly clock: Clock;
  readonly registry: Registry;
  readonly checks: readonly ReadyCheck[];
  readonly checkMs?: number;
};

const CHECK_MS = 2_000;

/** `/healthz`: the process answers. `/readyz`: every check passes, or 503 with what each waits for. `/metrics`: Prometheus text. */
export function registerHealth(app: FastifyInstance, { clock, registry, checks, checkMs = CHECK_MS }: HealthPorts): void {
  app.get('/healthz', { schema: HEALTHZ_SCHEMA }, () => ({ status: 'ok' }));
  app.get('/readyz', { schema: READYZ_SCHEMA }, async () => {
    const states = await Promise.all(checks.map(async (check) => ({ name: check.name, waitsFor: await waitsFor(check, clock, checkMs) })));
    const waiting = states.filter((state) => state.waitsFor !== null);
    if (waiting.length === 0) return { status: 'ready', checks: states };
    const names = waiting.map(({ name }) => name).join(', ');
    throw new TapedeckError('not_ready', `not ready: ${names}`, { details: { checks: states } });
  });
  app.get('/metrics', { schema: METRICS_SCHEMA }, async (_request, reply) => {
    const text = await registry.metrics();
    return reply.header('content-type', registry.contentType).send(text);
  });
}

async function waitsFor(check: ReadyCheck, clock: Clock, ms: number): Promise<string | null> {
  try {
    return await withDeadline(clock, ms, check.name, async (signal) => check.waitsFor(signal));
  } catch (error) {
    return error instanceof TapedeckError ? `${error.code}: ${error.message}` : 'the check itself failed; the server log has it';
  }
}
