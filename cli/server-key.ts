import { environmentVariable } from './config.ts';

/** The request of a command with the API key of TAPEDECK_KEY, when there is one. A redirect to another server does not get it. */
export function withKey(init: RequestInit): RequestInit {
  const key = environmentVariable('TAPEDECK_KEY');
  if (key === undefined || key === '') return init;
  const headers = new Headers(init.headers);
  headers.set('authorization', `Bearer ${key}`);
  return { ...init, headers };
}

/** `fetch` for code that is handed one. */
export const keyedFetch: typeof fetch = (input, init) => fetch(input, withKey(init ?? {}));
