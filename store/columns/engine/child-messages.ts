/** What the supervisor and the engine process say to each other over the process channel. The password never stands in arguments or environment. */
export type StartMessage = {
  readonly kind: 'start';
  readonly dataDirectory: string;
  readonly spoolDirectory: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly nice: number;
  readonly slots: number;
  readonly stallMs: number;
};
export type StopMessage = { readonly kind: 'stop' };
export type ToChild = StartMessage | StopMessage;

export type ReadyMessage = { readonly kind: 'ready'; readonly port: number; readonly version: string };
/** The engine could not start; `isLocked`: another process owns the directory. */
export type FailedMessage = {
  readonly kind: 'failed';
  readonly isLocked: boolean;
  readonly isPortTaken: boolean;
  readonly message: string;
};
export type FromChild = ReadyMessage | FailedMessage;

/** Threads of the pool that the child needs: one per statement that may run, and spare ones for kills, files and compression. */
export function threadsFor(slots: number): number {
  return slots + writeSlotsFor(slots) + 8;
}

export function writeSlotsFor(slots: number): number {
  return Math.max(2, Math.ceil(slots / 2));
}
