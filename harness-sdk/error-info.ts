/** Anything thrown as what events say about an error. */
import type { ErrorInfo } from './record-types.ts';

export function errorInfo(error: unknown): ErrorInfo {
  if (isInfo(error)) return error;
  if (!(error instanceof Error)) return { type: typeof error, message: textOf(error) };
  const { status, statusCode } = error as { status?: unknown; statusCode?: unknown };
  const code = typeof status === 'number' ? status : typeof statusCode === 'number' ? statusCode : undefined;
  const type = error.name === '' || error.name === 'Error' ? error.constructor.name || 'Error' : error.name;
  return {
    type,
    message: error.message,
    ...(code !== undefined && Number.isInteger(code) && { statusCode: code }),
    ...(typeof error.stack === 'string' && { traceback: error.stack }),
  };
}

function isInfo(error: unknown): error is ErrorInfo {
  if (typeof error !== 'object' || error === null || error instanceof Error) return false;
  const { type, message } = error as { type?: unknown; message?: unknown };
  return typeof type === 'string' && type !== '' && typeof message === 'string';
}

function textOf(value: unknown): string {
  try {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    return Object.prototype.toString.call(value);
  }
}
