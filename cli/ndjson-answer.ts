/** Reads the JSON lines of a long-running request as they come; the last line says how it ended. */
import { TapedeckError, ERROR_CODES, type ErrorCode } from '../base/errors.ts';

type Ending = { readonly done: true } | { readonly error: { readonly code: string; readonly message: string } };

/** Yields each progress line; throws the server's error, or `truncated_body` when the answer breaks off. */
export async function* progressOf<T>(answer: Response): AsyncGenerator<T> {
  let rest = '';
  let ending: Ending | null = null;
  for await (const chunk of (answer.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() as string;
    for (const line of lines.filter(Boolean)) {
      const value = JSON.parse(line) as T | Ending;
      if (isEnding(value)) ending = value;
      else yield value;
    }
  }
  if (ending === null) throw new TapedeckError('truncated_body', 'the answer broke off: the server went away');
  if ('error' in ending) {
    const { code, message } = ending.error;
    throw new TapedeckError(Object.hasOwn(ERROR_CODES, code) ? (code as ErrorCode) : 'internal', message);
  }
}

function isEnding(value: unknown): value is Ending {
  return typeof value === 'object' && value !== null && ('done' in value || 'error' in value);
}
