package wire

import "bytes"

// shape is a message that was skimmed, with a hole where its only text was. A message that differs from it in
// nothing but that text says the same, and to see that is four times faster than to skim it. Most messages of a
// stream have the shape of the one before.
type shape struct {
	before, after []byte // with the quotes of the text
	event         event
}

// maxShape bounds the messages whose shape is kept.
const maxShape = 4 << 10

// learn takes the shape of a message, whose payload e was skimmed from begins at the given offset.
func (s *shape) learn(message []byte, offset int, e *event) {
	if e.texts != 1 || e.usage != nil || len(message) > maxShape {
		return
	}
	s.before = append(s.before[:0], message[:offset+e.from+1]...)
	s.after = append(s.after[:0], message[offset+e.to-1:]...)
	s.event = *e
}

// fits reports whether a message has the shape.
func (s *shape) fits(message []byte) bool {
	hole := len(message) - len(s.before) - len(s.after)
	if hole <= 0 || len(s.before) == 0 || !bytes.HasPrefix(message, s.before) || !bytes.HasSuffix(message, s.after) {
		return false
	}
	end, _ := skipString(message, len(s.before)-1)
	return end == len(s.before)+hole+1
}
