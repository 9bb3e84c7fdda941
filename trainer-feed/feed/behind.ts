/** Work that goes on behind the passes of a feed, one piece at a time: nobody waits for it, and what went wrong is thrown to whoever asks next. */
export class Behind {
  #running: Promise<void> | null = null;
  #failure: { readonly error: unknown } | null = null;

  get isBusy(): boolean {
    return this.#running !== null;
  }

  /** Begins; must not be busy. Throws what went wrong before. */
  begin(work: () => Promise<void>): void {
    if (this.#running !== null) throw new Error('what goes on behind has not ended');
    this.#throwFailure();
    this.#running = work()
      .catch((error: unknown) => void (this.#failure = { error }))
      .finally(() => (this.#running = null));
  }

  /** Resolves when nothing is under way. Throws what went wrong since the last time. */
  async settled(): Promise<void> {
    await this.#running;
    this.#throwFailure();
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = null;
    if (failure !== null) throw failure.error;
  }
}
