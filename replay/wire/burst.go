package wire

import "time"

// A burst is several messages that arrive as good as together: some proxy, or the server, had held them back.
const (
	burstSpan = time.Millisecond // from its first message to its last
	burstSize = 8                // messages that it has at least
)

// Burst returns how many messages a burst of the answer has on average, where more than half of its messages came in bursts; else 0.
// The instants of such an answer tell when the buffers were emptied, not when the tokens were made.
func (c *Contents) Burst() int {
	var start time.Duration
	size, bursts, within := 0, 0, 0
	end := func() {
		if size >= burstSize {
			bursts, within = bursts+1, within+size
		}
	}
	for at := range c.All() {
		if size > 0 && at-start <= burstSpan {
			size++
			continue
		}
		end()
		start, size = at, 1
	}
	end()
	if 2*within <= c.n {
		return 0
	}
	return (within + bursts/2) / bursts
}
