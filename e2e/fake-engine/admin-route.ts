/**
 * The engine's own knobs, for tests in another process:
 *   GET  /fake/requests?from=N   what it saw and gave      POST /fake/faults   one queue entry, or a list     DELETE /fake/faults
 *   POST /fake/policy {version}                            POST /fake/pace {firstTokenMs?, tokenMs?, streamInterval?}
 *   POST /fake/restart {downMs}
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Engine } from './engine-state.ts';
import { queuedFaultSchema } from './faults.ts';
import type { SeenRequest } from './seen.ts';

const policySchema = z.strictObject({ version: z.int().min(0) });
const paceSchema = z.strictObject({
  firstTokenMs: z.number().min(0).optional(),
  tokenMs: z.number().min(0).optional(),
  streamInterval: z.int().min(1).optional(),
});
const restartSchema = z.strictObject({ downMs: z.number().min(0).default(200) });

export function adminRoute(engine: Engine, request: IncomingMessage, response: ServerResponse, text: string): void {
  const url = new URL(request.url ?? '/', 'http://engine');
  const answer = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  try {
    const body: unknown = text === '' ? {} : JSON.parse(text);
    switch (`${request.method} ${url.pathname}`) {
      case 'GET /fake/requests':
        return answer(200, { open: engine.log.open(), requests: engine.log.list(Number(url.searchParams.get('from') ?? 0)).map(plain) });
      case 'POST /fake/faults':
        for (const entry of z.union([z.array(queuedFaultSchema), queuedFaultSchema.transform((e) => [e])]).parse(body))
          engine.faults.add(entry);
        return answer(200, {});
      case 'DELETE /fake/faults':
        engine.faults.clear();
        return answer(200, {});
      case 'POST /fake/policy':
        engine.policyVersion = policySchema.parse(body).version;
        return answer(200, { version: engine.policyVersion });
      case 'POST /fake/pace':
        Object.assign(engine.pace, paceSchema.parse(body));
        return answer(200, engine.pace);
      case 'POST /fake/restart':
        response.once('finish', () => engine.restart(restartSchema.parse(body).downMs));
        return answer(200, {});
      default:
        return answer(404, { error: `no ${request.method} ${url.pathname}` });
    }
  } catch (error) {
    return answer(400, { error: String(error) });
  }
}

/** Numbers as JSON has them: the float64 of each float32, which gives the same float32 back. */
function plain(seen: SeenRequest): unknown {
  return {
    ...seen,
    promptIds: seen.promptIds === null ? null : Array.from(seen.promptIds),
    choices: seen.choices.map((c) => ({
      ...c,
      ids: Array.from(c.ids),
      logprobs: Array.from(c.logprobs),
      pieces: undefined,
      alternatives: undefined,
    })),
  };
}
