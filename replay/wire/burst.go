package wire

import "time"

// A burst is several messages that arrive as good as together: some proxy, or the server, had held them back.
const (
	burstSpan = time.Millisecond // from its first message to its last
	burstSize = 8                // messages that it has at least
)

// bursts finds the bursts of an answer.
type bursts struct {
	start          time.Duration // of the messages that came together last
	size           int           // how many these are
	n, within, all int           // bursts before them, messages of those, and all messages but the last ones
}

// add adds a message, in the order of their arrivals.
func (b *bursts) add(at time.Duration) {
	if b.size > 0 && at-b.start <= burstSpan {
		b.size++
		return
	}
	*b = b.closed()
	b.start, b.size = at, 1
}

// closed returns b behind its last messages.
func (b *bursts) closed() bursts {
	c := bursts{n: b.n, within: b.within, all: b.all + b.size}
	if b.size >= burstSize {
		c.n, c.within = b.n+1, b.within+b.size
	}
	return c
}

// typical returns how many messages a burst has on average, where more than half of all messages came in bursts; else 0. The instants of
// such an answer tell when a buffer was emptied, not when tokens were made.
func (b *bursts) typical() int {
	c := b.closed()
	if 2*c.within <= c.all {
		return 0
	}
	return (c.within + c.n/2) / c.n
}
