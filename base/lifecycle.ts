/** Anything long-lived. `close` is idempotent. */
export interface Closable {
  close(): Promise<void>;
}

/**
 * Opens things in order and closes them in reverse. When one fails to open, those already open are closed before the error is thrown.
 * Errors while closing do not stop the rest; they are thrown together at the end.
 */
export class Lifecycle implements Closable {
  readonly #open: { name: string; close: () => Promise<void> }[] = [];
  #closing: Promise<void> | null = null;

  /** Opens one thing; `close` is remembered for later. */
  async open<T>(name: string, open: () => Promise<T> | T, close: (opened: T) => Promise<void> | void): Promise<T> {
    try {
      const opened = await open();
      this.#open.push({ name, close: async () => close(opened) });
      return opened;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (const part of this.#open.toReversed()) {
      try {
        await part.close();
      } catch (error) {
        failures.push(new Error(`closing ${part.name} failed`, { cause: error }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, 'not everything closed cleanly');
  }
}
