package wire

import (
	"encoding/binary"
	"errors"
	"iter"
	"time"
)

// Contents has the instants of the messages of an answer that had content, reasoning or a tool call, and the output tokens that
// each brought where the server said so. It keeps them packed, a few bytes a message: a varint of twice the nanoseconds since the
// message before, or since the request was sent; and, where that is odd, a varint of the tokens of the message.
type Contents struct {
	packed []byte
	last   time.Duration // of the last message, since the request was sent
	n      int           // messages
}

// Add adds a message at an instant since the request was sent. tokens are those that it brought, Unknown if the server did not say.
func (c *Contents) Add(at time.Duration, tokens int64) {
	c.n++
	if at <= c.last && tokens < 0 { // messages that arrive in one read
		c.packed = append(c.packed, 0)
		return
	}
	gap := uint64(max(0, at-c.last)) << 1
	if tokens >= 0 {
		gap |= 1
	}
	c.packed = binary.AppendUvarint(c.packed, gap)
	if tokens >= 0 {
		c.packed = binary.AppendUvarint(c.packed, uint64(tokens))
	}
	c.last = max(c.last, at)
}

// Len returns the number of messages.
func (c *Contents) Len() int { return c.n }

// reset forgets the messages. It keeps the buffer unless that has grown large.
func (c *Contents) reset() {
	const keep = 64 << 10
	if cap(c.packed) > keep {
		c.packed = nil
	}
	c.packed, c.last, c.n = c.packed[:0], 0, 0
}

// clone returns a copy that takes no more memory than it needs.
func (c *Contents) clone() Contents {
	if len(c.packed) == 0 {
		return Contents{}
	}
	packed := make([]byte, len(c.packed))
	copy(packed, c.packed)
	return Contents{packed: packed, last: c.last, n: c.n}
}

// Packed returns the messages as UnpackContents reads them. It is valid until the next Add.
func (c *Contents) Packed() []byte { return c.packed }

// errContents is the error of bytes that no Contents packed.
var errContents = errors.New("packed contents are damaged")

// UnpackContents returns the messages that Packed returned, or an error. It keeps the bytes.
func UnpackContents(packed []byte) (Contents, error) {
	c := Contents{packed: packed}
	for at := 0; at < len(packed); {
		gap, n := binary.Uvarint(packed[at:])
		if n <= 0 {
			return Contents{}, errContents
		}
		at += n
		c.last += time.Duration(gap >> 1)
		c.n++
		if gap&1 == 0 {
			continue
		}
		if _, n = binary.Uvarint(packed[at:]); n <= 0 {
			return Contents{}, errContents
		}
		at += n
	}
	return c, nil
}

// All returns the messages in their order: the instant of each since the request was sent, and its tokens or Unknown.
func (c Contents) All() iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		var instant time.Duration
		for rest := c.packed; len(rest) > 0; {
			gap, n := binary.Uvarint(rest)
			rest = rest[n:]
			instant += time.Duration(gap >> 1)
			tokens := Unknown
			if gap&1 == 1 {
				count, n := binary.Uvarint(rest)
				tokens, rest = int64(count), rest[n:]
			}
			if !yield(instant, tokens) {
				return
			}
		}
	}
}
