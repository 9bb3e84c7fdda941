/** How the gateway itself says no to a harness: in the shape of its dialect, and so that client libraries do not try again where that cannot help. */
import { ERROR_CODES } from '../../../base/errors.ts';
import type { Problem } from '../../../base/result.ts';
import type { Dialect } from '../dialects/dialect.ts';
import type { PlainHeaders } from './harness-headers.ts';
import { sendError } from './relay.ts';
import type { HarnessOut } from './out.ts';

/** Client libraries of OpenAI and Anthropic try again on 409, 429 and 5xx unless this header forbids it. */
export function refuse(
  out: HarnessOut,
  dialect: Dialect,
  problem: Pick<Problem, 'code' | 'message'>,
  marks: PlainHeaders,
  shown?: { readonly status: number; readonly code: string },
): void {
  const { status, retry } = ERROR_CODES[problem.code];
  const headers = retry ? { ...marks, 'retry-after': '1' } : { ...marks, 'x-should-retry': 'false' };
  sendError(out, dialect, { status: shown?.status ?? status, code: shown?.code ?? problem.code, message: problem.message }, headers);
}
