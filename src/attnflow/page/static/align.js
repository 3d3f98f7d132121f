// Which token of one sentence is which of another: the longest common subsequence.

export function align(left, right) {
  const n = left.length;
  const m = right.length;
  const length = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let j = m - 1; j >= 0; j -= 1) {
      length[i][j] = left[i] === right[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const pairs = [];
  let [i, j] = [0, 0];
  while (i < n || j < m) {
    if (i < n && j < m && left[i] === right[j]) pairs.push([i++, j++]);
    // Where both sides differ they are shown side by side: "keys" instead of "key".
    else if (i < n && j < m && length[i + 1][j + 1] >= Math.max(length[i + 1][j], length[i][j + 1])) pairs.push([i++, j++]);
    else if (j >= m || (i < n && length[i + 1][j] >= length[i][j + 1])) pairs.push([i++, null]);
    else pairs.push([null, j++]);
  }
  return pairs;
}
