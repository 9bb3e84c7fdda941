/**
 * Ranking: Bradley-Terry strengths fitted to all comparisons, as log strengths around 0. 100 steps of the minorise-maximise iteration (Hunter 2004) with one virtual tie for
 * every pair, which keeps the strength of a member that won or lost everything finite.
 */
import { checkJudgements, pointsOf, type GroupReward, type Judgement } from './group-reward.ts';

export const BRADLEY_TERRY_VERSION = 1;
const STEPS = 100;

/** Log strength of each member, mean 0. One member alone: 0. */
export function bradleyTerry(members: number, judgements: readonly Judgement[]): GroupReward {
  checkJudgements(members, judgements);
  const games = new Float64Array(members * members);
  const wins = new Float64Array(members);
  for (let i = 0; i < members; i++) {
    wins[i] = (members - 1) / 2;
    for (let j = 0; j < members; j++) if (i !== j) games[i * members + j] = 1;
  }
  for (const { first, second, verdict } of judgements) {
    const [won, lost] = pointsOf(verdict);
    (wins[first] as number) += won;
    (wins[second] as number) += lost;
    (games[first * members + second] as number)++;
    (games[second * members + first] as number)++;
  }
  const logs = fit(members, wins, games).map(Math.log);
  const centre = logs.reduce((a, b) => a + b, 0) / members;
  return { version: BRADLEY_TERRY_VERSION, scores: Array.from(logs, (log) => (members < 2 ? 0 : log - centre)) };
}

/** p_i <- wins_i / sum over j of games_ij / (p_i + p_j), all at once; scaled to mean 1 after each step, which changes no ratio. */
function fit(members: number, wins: Float64Array, games: Float64Array): Float64Array {
  let strengths = new Float64Array(members).fill(1);
  for (let step = 0; step < STEPS; step++) {
    const next = strengths.map((own, i) => {
      let divisor = 0;
      for (let j = 0; j < members; j++) if (j !== i) divisor += (games[i * members + j] as number) / (own + (strengths[j] as number));
      return divisor === 0 ? 1 : (wins[i] as number) / divisor;
    });
    const scale = members / next.reduce((a, b) => a + b, 0);
    strengths = next.map((value) => value * scale);
  }
  return strengths;
}
