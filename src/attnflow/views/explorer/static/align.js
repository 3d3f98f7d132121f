// Which token of one text matches which of another: the longest common subsequence. Between common
// tokens, gaps of equal length are matched token by token ("keys" and "key").

export function align(left, right) {
  const n = left.length;
  const m = right.length;
  const length = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let j = m - 1; j >= 0; j -= 1) {
      length[i][j] =
        left[i] === right[j]
          ? length[i + 1][j + 1] + 1
          : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const pairs = [];
  let gap = [[], []];
  const close = () => {
    const [a, b] = gap;
    if (a.length === b.length) a.forEach((at, k) => pairs.push([at, b[k]]));
    else pairs.push(...a.map((at) => [at, null]), ...b.map((at) => [null, at]));
    gap = [[], []];
  };
  let [i, j] = [0, 0];
  while (i < n || j < m) {
    if (i < n && j < m && left[i] === right[j]) {
      close();
      pairs.push([i++, j++]);
    } else if (j >= m || (i < n && length[i + 1][j] >= length[i][j + 1])) gap[0].push(i++);
    else gap[1].push(j++);
  }
  close();
  return pairs;
}
