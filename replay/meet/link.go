package meet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// Limits of a connection.
const (
	silence      = 10 * time.Second // without a message the other part counts as lost: each sends one a second
	writeTimeout = 5 * time.Second
	closeTimeout = 2 * time.Second // for the other side to read what was sent last
	outbox       = 64              // messages that may wait to be sent
)

// link is the connection to another part. One goroutine writes, one reads.
type link struct {
	conn  net.Conn
	clock func() time.Time

	mu     sync.Mutex
	out    chan *message
	closed bool // nothing more is sent
}

// send queues a message. A part that does not read, so that messages pile up, loses the connection.
func (l *link) send(m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	select {
	case l.out <- m:
	default:
		l.closed = true
		close(l.out)
		_ = l.conn.Close()
	}
}

// close ends the connection when everything is sent.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.out)
	}
}

// write sends what is queued until close. The stamps of a clock are those of its sending.
func (l *link) write() {
	var err error
	for m := range l.out {
		if err != nil {
			continue
		}
		if m.Kind == clock && m.T1 == 0 {
			m.T1 = l.clock().UnixNano()
		} else if m.Kind == clock {
			m.T3 = l.clock().UnixNano()
		}
		_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err = writeMessage(l.conn, m); err != nil {
			_ = l.conn.Close() // which the reader tells
		}
	}
	endConn(l.conn)
}

// endConn says that nothing more is sent. The reader closes the connection: what the other side sends until it has read all would
// else take back what it has not read.
func endConn(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(closeTimeout))
		return
	}
	_ = conn.Close()
}

// read calls handle for every message until the connection ends, and closes it. The error says why it ended; at is when the
// message came.
func (l *link) read(handle func(m *message, at time.Time) error) (err error) {
	for err == nil {
		l.expect()
		var m *message
		if m, err = readMessage(l.conn, maxMessage); err == nil {
			err = handle(m, l.clock())
		}
	}
	_ = l.conn.Close()
	return describe(err)
}

// expect bounds the wait for the next message. The end of a connection has a bound of its own.
func (l *link) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		_ = l.conn.SetReadDeadline(time.Now().Add(silence))
	}
}

// describe says in words why a connection has ended.
func describe(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errors.New("its connection ended")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it was silent for %v", silence)
	}
	return err
}

// protocol is the version of the messages. Parts of other versions refuse each other.
const protocol = 1

// Bounds of a message, bytes. A stranger may send a short one.
const (
	maxGreeting = 4 << 10
	maxMessage  = 4 << 20
)

// The kinds of messages, in the order in which a connection has them. Part 0 sends those marked <, the other part those marked >.
const (
	challenge = "challenge" // < Protocol, Version, Nonce
	answer    = "answer"    // > Protocol, Version, Nonce, Proof
	proof     = "proof"     // < Proof
	hello     = "hello"     // > Member; ID of a part 0
	itself    = "itself"    // < the connection is one of part 0 to itself
	refused   = "refused"   // < Stop: this part alone must end
	welcome   = "welcome"   // < ID, Member
	met       = "met"       // < all parts are here
	clock     = "clock"     // > T1, Compare; < both, T2, T3
	ready     = "ready"     // > Phase, RTT
	begin     = "begin"     // < Phase, At
	gain      = "gain"      // > Gain
	lost      = "lost"      // < Lost
	stop      = "stop"      // <> Stop: all parts must end
	done      = "done"      // > the part is over, the connection may end
)

// message is one message of a connection.
type message struct {
	Kind string `json:"kind"`

	Protocol int    `json:"protocol,omitempty"`
	Version  string `json:"version,omitempty"` // of agentx
	Nonce    []byte `json:"nonce,omitempty"`
	Proof    []byte `json:"proof,omitempty"` // empty: the sender has no token

	Member *Member `json:"member,omitempty"`
	ID     string  `json:"id,omitempty"` // of the meeting

	Phase string `json:"phase,omitempty"`
	At    int64  `json:"at,omitempty"`  // when it begins, on the clock of part 0, ns since 1970
	RTT   int64  `json:"rtt,omitempty"` // slowest round trip, ns

	Compare bool `json:"compare,omitempty"` // the question is one of a comparison

	T1 int64 `json:"t1,omitempty"` // when the question was sent, on the clock of the part that asks
	T2 int64 `json:"t2,omitempty"` // when it came, on the clock of part 0
	T3 int64 `json:"t3,omitempty"` // when the answer was sent, on the clock of part 0

	Gain json.RawMessage   `json:"gain,omitempty"`
	Lost *measure.LostPart `json:"lost,omitempty"`
	Stop *Stop             `json:"stop,omitempty"`
}

// strangerError says that the other side does not speak as a part.
type strangerError string

func (s strangerError) Error() string { return string(s) }

// writeMessage writes a message in one piece.
func writeMessage(w io.Writer, m *message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("a message %s of %d bytes: want at most %d", m.Kind, len(text), maxMessage)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))), text...))
	return err
}

// readMessage reads a message of at most limit bytes, which it looks at before it takes memory.
func readMessage(r io.Reader, limit int) (*message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > uint32(limit) {
		return nil, strangerError(fmt.Sprintf("it sent %q, which is no message of agentx", head))
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	m := new(message)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, strangerError("it sent a message that agentx does not write: " + err.Error())
	}
	return m, nil
}
