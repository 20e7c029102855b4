package carry

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// message is a request or reply apart from what net/http may choose: the order and spelling of header names, the reason
// phrase, the boundaries of chunks.
type message struct {
	first    string   // of a request the whole line, of a reply its status
	headers  []string // NAME: VALUE, sorted by name alone
	framing  string   // "length", "chunked", "none"
	body     string
	trailers []string
	broken   bool // it ended before its framing says so
}

// readMessage reads one message as bytes, with a reader of its own: it shares no code with net/http.
func readMessage(in *bufio.Reader, bodyless bool) (m message, err error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return m, fmt.Errorf("%w after %q", err, line)
	}
	m.first = strings.TrimSuffix(line, "\r\n")
	if strings.HasPrefix(m.first, "HTTP/") {
		m.first = m.first[:len("HTTP/1.1 200")]
		status := m.first[9:]
		bodyless = bodyless || status[0] == '1' || status == "204" || status == "304"
	}
	if m.headers, err = readHeaders(in); err != nil {
		return m, err
	}
	length := -1
	m.framing = "none"
	for _, h := range m.headers {
		switch name, value, _ := strings.Cut(h, ": "); name {
		case "Content-Length":
			length, _ = strconv.Atoi(value)
			m.framing = "length"
		case "Transfer-Encoding":
			m.framing = "chunked"
		}
	}
	switch {
	case bodyless:
	case m.framing == "chunked":
		err = m.readChunks(in)
	case length >= 0:
		data := make([]byte, length)
		n, short := io.ReadFull(in, data)
		m.body, m.broken = string(data[:n]), short != nil
	case strings.HasPrefix(m.first, "HTTP/"):
		data, _ := io.ReadAll(in)
		m.body = string(data)
	}
	return m, err
}

func readHeaders(in *bufio.Reader) (list []string, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return list, fmt.Errorf("%w after %q", err, line)
		}
		if line = strings.TrimSuffix(line, "\r\n"); line == "" {
			slices.SortStableFunc(list, func(a, b string) int {
				a, _, _ = strings.Cut(a, ":")
				b, _, _ = strings.Cut(b, ":")
				return strings.Compare(a, b)
			})
			return list, nil
		}
		name, value, _ := strings.Cut(line, ":")
		list = append(list, textproto.CanonicalMIMEHeaderKey(name)+": "+strings.TrimSpace(value))
	}
}

func (m *message) readChunks(in *bufio.Reader) (err error) {
	var body bytes.Buffer
	defer func() { m.body = body.String() }()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			m.broken = true
			return nil
		}
		digits, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(digits, 16, 64)
		if err != nil {
			return err
		}
		if n == 0 {
			m.trailers, err = readHeaders(in)
			return err
		}
		if _, err := io.CopyN(&body, in, n); err != nil {
			m.broken = true
			return nil
		}
		_, _ = in.Discard(2)
	}
}

// crossed is what a message looks like behind a proxy: without the headers of its connection.
func (m message) crossed() message {
	drop := []string{"Connection", "Transfer-Encoding", "Keep-Alive", "Te", "Trailer", "Proxy-Connection", "Host"}
	for _, h := range m.headers {
		if list, ok := strings.CutPrefix(h, "Connection: "); ok {
			for _, name := range strings.Split(list, ",") {
				drop = append(drop, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
			}
		}
	}
	m.headers = slices.DeleteFunc(slices.Clone(m.headers), func(h string) bool {
		name, _, _ := strings.Cut(h, ":")
		return slices.Contains(drop, name)
	})
	return m
}
