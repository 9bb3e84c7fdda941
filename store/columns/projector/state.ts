/** What the projector is doing, for /readyz, /metrics and audit. Plain data, so that it crosses process borders. */
export type ProjectorState = {
  readonly phase: 'starting' | 'idle' | 'projecting' | 'waiting' | 'stopped';
  /** In phase `waiting`: what for, since when, and the last error of the store. */
  readonly waitingFor: string | null;
  readonly sinceMicros: number;
  /** Per partition: the next offset to project, and the end of the log when last seen. */
  readonly positions: readonly number[];
  readonly ends: readonly number[];
  readonly lagEvents: number;
  /** Age of the oldest event read but not yet stored, 0 when caught up. */
  readonly lagSeconds: number;
  readonly blocks: number;
  readonly events: number;
  readonly lastBlock: { readonly events: number; readonly bytes: number; readonly ms: number } | null;
  readonly byStatus: {
    readonly stored: number;
    readonly duplicate: number;
    readonly conflict: number;
    readonly dead: number;
    readonly deleted: number;
  };
};
