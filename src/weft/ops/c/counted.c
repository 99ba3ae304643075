// The body that groups equal rows.

//@ compare
// Sets `order` to the sign of row j minus row first[k].
order = 0;
for (o = 0; o < $outer && order == 0; ++o) {
    for (i = 0; i < $inner && order == 0; ++i) {
        p = (o * $rows + j) * $inner + i;
        q = (o * $rows + first[k]) * $inner + i;
        order = (in0[p] > in0[q]) - (in0[p] < in0[q]);
    }
}

//@ group
for (j = 0; j < $rows; ++j) {
    place = found;
    for (k = 0; k < found; ++k) {
$compare        if (order == 0)
            break;
$before    }
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
