// Runs loads beside the page: a million requests take seconds.
import { ready, simulateLoad, type LoadRun } from 'tokenbrook/mock';

export interface LoadAsk {
  id: number;
  run: LoadRun;
}

export type LoadAnswer =
  | { id: number; stretches: ReturnType<typeof simulateLoad> }
  | { id: number; problem: string };

addEventListener('message', ({ data: { id, run } }: MessageEvent<LoadAsk>) => {
  void answer(id, run).then((answered) => postMessage(answered));
});

async function answer(id: number, run: LoadRun): Promise<LoadAnswer> {
  try {
    await ready;
    return { id, stretches: simulateLoad(run) };
  } catch (error) {
    return { id, problem: error instanceof Error ? error.message : String(error) };
  }
}
