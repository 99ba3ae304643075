// Non-max suppression.

//@ body
unsigned char *gone = scratch;
long n, c, j, taken, best, base, score, row = 0;
float a0, a1, a2, a3, topp, endp, leftp, rightp, topq, endq, leftq, rightq;
float high, low, wide, near, common, one, two;
for (n = 0; n < $batch; ++n) {
    base = n * $boxes * 4;
    for (c = 0; c < $classes; ++c) {
        score = (n * $classes + c) * $boxes;
        for (j = 0; j < $boxes; ++j)
            gone[j] = (unsigned char)!($any || in1[score + j] > $threshold);
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
            $first
            for (j = 0; j < $boxes; ++j) {
                if (gone[j])
                    continue;
                $second
                high = endp < endq ? endp : endq;
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
    }
}
for (j = row * 3; j < $room * 3; ++j)
    out0[j] = -1;

//@ box
// The edges of box $box from its row: from two corners in any order, or from centre and size.
a0 = in0[$row];
a1 = in0[$row + 1];
a2 = in0[$row + 2];
a3 = in0[$row + 3];
top$box = $centred ? a1 - a3 / 2.0f : a0 < a2 ? a0 : a2;
end$box = $centred ? a1 + a3 / 2.0f : a0 < a2 ? a2 : a0;
left$box = $centred ? a0 - a2 / 2.0f : a1 < a3 ? a1 : a3;
right$box = $centred ? a0 + a2 / 2.0f : a1 < a3 ? a3 : a1;
