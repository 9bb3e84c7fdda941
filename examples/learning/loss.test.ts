import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { dppoKl, ppoClip, type RlLoss } from './loss.ts';

const logp = fc.double({ min: -6, max: -0.01, noNaN: true });
const advantage = fc.double({ min: -2, max: 2, noNaN: true });

for (const [name, rl] of Object.entries({ dppoKl, ppoClip }) as [string, RlLoss][]) {
  test(`the slope of ${name} is the derivative of its value`, () => {
    fc.assert(
      fc.property(logp, logp, advantage, (trainer, sampler, a) => {
        const step = 1e-6;
        const [low, at, high] = [trainer - step, trainer, trainer + step].map((t) => rl(t, sampler, a)) as [
          ReturnType<RlLoss>,
          ReturnType<RlLoss>,
          ReturnType<RlLoss>,
        ];
        fc.pre(low.masked === high.masked); // at the edge of the trust region there is no derivative
        const slope = (high.value - low.value) / (2 * step);
        assert.ok(Math.abs(slope - at.slope) < 1e-4 * Math.max(1, Math.abs(at.slope)), `${at.slope}, by differences ${slope}`);
      }),
    );
  });
}

test('what is masked, by the definitions', () => {
  const p = Math.log;
  // DPPO: the probability moved by more than 0.2 in the direction of the advantage
  assert.deepEqual(
    [dppoKl(p(0.8), p(0.5), 1).masked, dppoKl(p(0.6), p(0.5), 1).masked, dppoKl(p(0.8), p(0.5), -1).masked],
    [true, false, false],
  );
  assert.deepEqual(
    [dppoKl(p(0.2), p(0.5), -1).masked, dppoKl(p(0.4), p(0.5), -1).masked, dppoKl(p(0.2), p(0.5), 1).masked],
    [true, false, false],
  );
  // on policy: the value is -A, the slope too
  const { value, slope } = dppoKl(p(0.3), p(0.3), 0.7);
  assert.ok(Math.abs(value + 0.7) < 1e-12 && Math.abs(slope + 0.7) < 1e-12);
  // PPO: the ratio left [0.8, 1.2] in the direction of the advantage
  assert.deepEqual(
    [ppoClip(p(0.7), p(0.5), 1).masked, ppoClip(p(0.55), p(0.5), 1).masked, ppoClip(p(0.3), p(0.5), -1).masked],
    [true, false, true],
  );
  assert.ok(Math.abs(ppoClip(p(0.7), p(0.5), 1).value + 1.2) < 1e-12);
});
