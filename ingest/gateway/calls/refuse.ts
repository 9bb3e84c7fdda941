/** How the gateway itself says no to a harness: in the shape of its dialect, and so that client libraries do not try again where that cannot help. */
import { ERROR_CODES } from '../../../base/errors.ts';
import type { Problem } from '../../../base/result.ts';
import type { Dialect } from '../dialects/dialect.ts';
import type { PlainHeaders } from './harness-headers.ts';
import type { HarnessOut } from './out.ts';
import { sendReply, type Reply } from './reply.ts';

export type Refused = Pick<Problem, 'code' | 'message'>;
type Shown = { readonly status: number; readonly code: string };

/** Client libraries of OpenAI and Anthropic try again on 409, 429 and 5xx unless this header forbids it. */
export function refusal({ code, message }: Refused, marks: PlainHeaders, shown?: Shown): Reply {
  const { status, retry } = ERROR_CODES[code];
  const headers: PlainHeaders = retry ? { ...marks, 'retry-after': '1' } : { ...marks, 'x-should-retry': 'false' };
  return { kind: 'error', status: shown?.status ?? status, code: shown?.code ?? code, message, headers };
}

export function refuse(out: HarnessOut, dialect: Dialect, problem: Refused, marks: PlainHeaders, shown?: Shown): void {
  sendReply(out, dialect, refusal(problem, marks, shown));
}
