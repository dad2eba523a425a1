// One line of JSON for each observation, and waits that end.

const PATIENCE_MS = 20_000;

export function observe(event, details) {
  process.stdout.write(`${JSON.stringify({ event, ...details })}\n`);
}

// The value of `promise`, or an error that names what was waited for in vain.
export async function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited too long for ${what}`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// Resolves when the signal aborts.
export function aborted(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", resolve, { once: true });
  });
}
