// Ops whose number of results depends on the data.

//@ groups
// The distinct rows so far, in order, each with its first place and how often it was met.
// `order` is the sign of row j minus row first[k].
int32_t *first = (int32_t *)(void *)scratch;
int32_t *times = first + $rows;
int32_t *member = times + $rows;
int32_t j, k, place, found = 0;
int order;
long o, i, p, q;
for (j = 0; j < $rows; ++j) {
    place = found;
    for (k = 0; k < found; ++k) {
        order = 0;
        for (o = 0; o < $outer && order == 0; ++o) {
            for (i = 0; i < $inner && order == 0; ++i) {
                p = (o * $rows + j) * $inner + i;
                q = (o * $rows + first[k]) * $inner + i;
                order = (in0[p] > in0[q]) - (in0[p] < in0[q]);
            }
        }
        if (order == 0)
            break;
        if ($sorted && order < 0 && place == found)
            place = k;
    }
    if (k < found) {
        ++times[k];
        member[j] = first[k];
        continue;
    }
    for (k = found; k > place; --k) {
        first[k] = first[k - 1];
        times[k] = times[k - 1];
    }
    first[place] = j;
    times[place] = 1;
    member[j] = j;
    ++found;
}
for (k = 0; k < $room; ++k) {
    out0[k] = k < found ? first[k] : -1;
    out0[$room + $rows + k] = k < found ? times[k] : -1;
}
for (j = 0; j < $rows; ++j) {
    for (k = 0; first[k] != member[j]; ++k)
        continue;
    out0[$room + j] = k;
}
