import type { CallError } from './outcome.ts';

/** Why a call was ended from our side while the upstream still answered. */
export class Stopped extends Error {
  readonly callError: CallError;
  constructor(type: string, message: string) {
    super(message);
    this.callError = { type, message };
  }
}
