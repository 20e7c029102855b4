package profile

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"strings"

	"github.com/agentx/agentx/internal/regular"
)

// maxFirstRow bounds how much of a file is read to look at a row, in bytes.
const maxFirstRow = 16 << 20

// rowHead is what tells a row of Mooncake, and when AIPerf sends it.
type rowHead struct {
	Timestamp   *float64
	Delay       *float64
	Session     *string      `json:"session_id"`
	InputLength *json.Number `json:"input_length"`
}

// firstRow returns the first row of a file with JSON lines. What cannot be read has none: the conversion tells.
func firstRow(name string) (first rowHead) {
	eachRow(name, func(row rowHead) bool {
		first = row
		return false
	})
	return first
}

// eachRow hands over the rows of a file with JSON lines, up to one that is none, or until there is enough.
func eachRow(name string, more func(row rowHead) bool) {
	f, err := regular.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			return
		}
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxFirstRow)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		var row rowHead
		if json.Unmarshal([]byte(line), &row) != nil || !more(row) {
			return
		}
	}
}

// rowTimes is what a file of Mooncake rows says about times.
type rowTimes struct {
	count                   int
	longest                 int     // rows of a session at most
	first                   float64 // timestamp of the earliest session, in milliseconds
	whole                   bool    // every timestamp is a whole number
	laterTimes, laterDelays bool    // rows within a session have a timestamp, a delay
}

// rows returns what the rows of the input say, which are read once.
func (t *translation) rows() *rowTimes {
	if t.readRows != nil {
		return t.readRows
	}
	t.readRows = &rowTimes{first: math.Inf(1), whole: true}
	sessions := map[string]int{}
	eachRow(t.value("--input-file"), func(row rowHead) bool {
		t.readRows.add(row, sessions)
		return true
	})
	return t.readRows
}

// add counts a row.
func (r *rowTimes) add(row rowHead, sessions map[string]int) {
	r.count++
	place := 1 // in its session
	if row.Session != nil {
		sessions[*row.Session]++
		place = sessions[*row.Session]
	}
	r.longest = max(r.longest, place)
	if row.Timestamp != nil {
		r.whole = r.whole && *row.Timestamp == math.Trunc(*row.Timestamp)
	}
	if place > 1 {
		r.laterTimes = r.laterTimes || row.Timestamp != nil
		r.laterDelays = r.laterDelays || row.Delay != nil
	} else if row.Timestamp != nil {
		r.first = min(r.first, *row.Timestamp)
	}
}
