"""Text that repeats itself without end, as a decoder does that has lost its way."""


def repeats(text: str) -> bool:
    """Whether it ends in a piece of at most 40 characters again and again: "of the of the of the".

    Five times, and 12 characters, at least; one character behind the last does not matter.
    """
    for period in range(1, 41):
        times = max(5, -(-12 // period))
        for end in (len(text), len(text) - 1):
            tail = text[max(0, end - times * period) : max(0, end)]
            if len(tail) == times * period and tail == tail[:period] * times:
                return True
    return False
