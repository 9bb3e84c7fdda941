/** Kills a process inside a system call: strace injects SIGKILL at the next rename, which is where a part becomes visible. */
import { execFile, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

/** Why the injection cannot be had here, or false. */
export async function whyNoStrace(): Promise<string | false> {
  try {
    await promisify(execFile)('strace', ['-e', 'trace=rename', '-e', 'inject=rename:signal=USR1:when=999', 'true']);
    return false;
  } catch (error) {
    return `strace cannot trace processes here (${error instanceof Error ? error.message.split('\n')[0] : String(error)})`;
  }
}

/** Attaches to all threads of `pid`; the next rename of any of them ends it. Resolves when attached. */
export async function killAtRename(pid: number): Promise<{ stop(): Promise<void> }> {
  const calls = 'rename,renameat,renameat2';
  const child = spawn('strace', ['-f', '-qq', '-e', `trace=${calls}`, '-e', `inject=${calls}:signal=KILL`, '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.stderr.resume();
  await sleep(300);
  return {
    stop: async () => {
      child.kill('SIGINT');
      await Promise.race([gone, sleep(2_000)]);
      child.kill('SIGKILL');
    },
  };
}
