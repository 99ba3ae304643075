// The body of non-max suppression.

//@ corners
// Corners of box {box} from its row {row}: the smaller coordinates first.
a0 = in0[$row];
a1 = in0[$row + 1];
a2 = in0[$row + 2];
a3 = in0[$row + 3];
top$box = a0 < a2 ? a0 : a2;
end$box = a0 < a2 ? a2 : a0;
left$box = a1 < a3 ? a1 : a3;
right$box = a1 < a3 ? a3 : a1;

//@ centred
left$box = in0[$row] - in0[$row + 2] / 2.0f;
right$box = in0[$row] + in0[$row + 2] / 2.0f;
top$box = in0[$row + 1] - in0[$row + 3] / 2.0f;
end$box = in0[$row + 1] + in0[$row + 3] / 2.0f;

//@ select
for (j = 0; j < $boxes; ++j)
    gone[j] = (unsigned char)!($eligible);
for (taken = 0; taken < $most && row < $room; ++taken) {
    best = -1;
    for (j = 0; j < $boxes; ++j) {
        if (!gone[j] && (best < 0 || in1[score + j] > in1[score + best]))
            best = j;
    }
    if (best < 0)
        break;
    gone[best] = 1;
    out0[row * 3] = n;
    out0[row * 3 + 1] = c;
    out0[row * 3 + 2] = best;
    ++row;
$first    for (j = 0; j < $boxes; ++j) {
        if (gone[j])
            continue;
$second        high = endp < endq ? endp : endq;
        low = topp > topq ? topp : topq;
        wide = rightp < rightq ? rightp : rightq;
        near = leftp > leftq ? leftp : leftq;
        if (high <= low || wide <= near)
            continue;
        common = (wide - near) * (high - low);
        one = (rightp - leftp) * (endp - topp);
        two = (rightq - leftq) * (endq - topq);
        if (common > 0.0f && one > 0.0f && two > 0.0f && common / (one + two - common) > $limit)
            gone[j] = 1;
    }
}
