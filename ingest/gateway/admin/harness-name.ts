/** The program that makes calls, as far as its requests say. Pure. */
import type { IncomingHttpHeaders } from 'node:http';

const MAX_LENGTH = 256;

/** For the `runtime` of a trace: the first product of the User-Agent without its version (`claude-cli`, `AsyncOpenAI/Python`), and all of it. Nothing when there is none. */
export function runtimeOf({ 'user-agent': userAgent }: IncomingHttpHeaders): Readonly<Record<string, string>> {
  if (userAgent === undefined || userAgent.trim() === '') return {};
  const harness = /^[^\s/()]+(?:\/[A-Za-z][^\s/]*)?/.exec(userAgent.trim())?.[0];
  return { ...(harness !== undefined && { harness: harness.slice(0, MAX_LENGTH) }), userAgent: userAgent.slice(0, MAX_LENGTH) };
}
