// Second loads: how long an engine takes to be ready with a model that it has kept itself from an
// earlier visit, in the storage of the page's origin.

/** Fewer tell nothing of a machine that does other things too. */
const LEAST_ROUNDS = 3;

/**
 * Medians by name, ms. Every engine visits once, which fills its own cache; then all are loaded
 * in turn, each time in a new page of the same visitor.
 */
export async function secondLoads(run, names, options, rounds, say) {
  const visitors = [];
  for (const name of names) {
    const context = await run.browser.newContext();
    visitors.push({ name, context, times: [] });
    await visit(run, context, name, options);
  }
  for (let round = 0; round < Math.max(rounds, LEAST_ROUNDS); round += 1) {
    for (const { context, name, times } of visitors) {
      times.push(await visit(run, context, name, options));
    }
  }
  const medians = new Map();
  for (const { name, context, times } of visitors) {
    times.sort((a, b) => a - b);
    say(`${name}: loaded again in ${times.map((ms) => ms.toFixed(0)).join(', ')} ms`);
    medians.set(name, times[times.length >> 1]);
    await context.close();
  }
  return medians;
}

async function visit(run, context, name, options) {
  const page = await context.newPage();
  await page.goto(run.url);
  await page.waitForFunction(() => document.title === 'ready');
  const args = [name, { ...options, isKept: true }];
  const { loadMs } = await page.evaluate((args) => globalThis.open(...args), args);
  await page.evaluate(() => globalThis.engine.close());
  await page.close();
  return loadMs;
}
