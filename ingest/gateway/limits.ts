/** Every limit of the gateway. Times in milliseconds. docs/gateway.md lists them. */
export type GatewayLimits = {
  /** A request body (`body_too_large`). */
  readonly bodyBytes: number;
  /** Requests in memory, all calls together (`overloaded`): a request is held until its call is recorded. */
  readonly inFlightBytes: number;
  /** Longest pause between two pieces of a body, and longest time for a whole one (`slow_body`). */
  readonly bodyIdleMs: number;
  readonly bodyMs: number;
  /** An answer that is not streamed. */
  readonly answerBytes: number;
  /** One event of a stream. */
  readonly eventBytes: number;
  /** What a stream may hold from its terminal event on. */
  readonly heldBytes: number;
  /** A stream that is silent this long gets a comment. */
  readonly keepAliveMs: number;
  /** A harness that takes nothing of a stream this long counts as gone. */
  readonly stallMs: number;
  /** How long making a call durable may take, with all attempts. */
  readonly durableMs: number;
  /** States of rollouts in memory; idle ones are folded from the log again. */
  readonly stateBytes: number;
  /** Answers kept for repeated requests, and for how long. */
  readonly replayBytes: number;
  readonly replayMs: number;
};

const MIB = 1024 * 1024;

export const GATEWAY_LIMITS: GatewayLimits = {
  bodyBytes: 64 * MIB,
  inFlightBytes: 512 * MIB,
  bodyIdleMs: 10_000,
  bodyMs: 30_000,
  answerBytes: 64 * MIB,
  eventBytes: 16 * MIB,
  heldBytes: 16 * MIB,
  keepAliveMs: 10_000,
  stallMs: 120_000,
  durableMs: 60_000,
  stateBytes: 256 * MIB,
  replayBytes: 64 * MIB,
  replayMs: 10 * 60_000,
};
