/** One rollout as it was at a position. */

export type RolloutRow = {
  readonly rollout: string;
  readonly group: string | null;
  readonly env: string | null;
  readonly taskKey: string | null;
  readonly taskHash: string | null;
  readonly taskType: string | null;
  readonly workType: string | null;
  readonly step: number | null;
  readonly ok: boolean | null;
  readonly cancelled: string | null;
  /** Whether an event said that it ended. */
  readonly hasEnded: boolean;
  /** Microseconds since 1970; null = not known. */
  readonly started: number | null;
  readonly ended: number | null;
  readonly stopCondition: string | null;
  /** Versions the producer gave at its start and end, before those of nodes and calls. */
  readonly policyVersion: number | null;
  readonly policyVersionEnd: number | null;
  readonly mirrorOf: string | null;
};

/** What a rollout scored: the sum of score times weight, or the score of one name. */
export type Score = {
  /** Null: not measured. NaN: measured as such. */
  readonly value: number | null;
};
