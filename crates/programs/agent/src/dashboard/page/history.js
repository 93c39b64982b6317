// The points of the last minutes: those that the agent had when this page opened, and those that
// came since.

const KEPT_MS = 15 * 60e3;

export class History {
  #points = new Map();

  /** Points, oldest first. */
  get points() {
    return [...this.#points.values()];
  }

  /** Adds points; one of the same time is the same point. */
  add(points) {
    for (const point of points) this.#points.set(point.at_unix_ms, point);
    const sorted = [...this.#points].sort(([a], [b]) => a - b);
    const newest = sorted.at(-1)?.[0] ?? 0;
    this.#points = new Map(sorted.filter(([at]) => at > newest - KEPT_MS));
  }
}
