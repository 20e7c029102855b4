package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Rebuild adds the records of a record file, in its order. It leaves out a last line without a line feed, the part of a record
// that a killed run has written, and then reports torn. The error names the line.
func (a *Aggregate) Rebuild(file io.Reader) (torn bool, err error) {
	in := bufio.NewReaderSize(file, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		switch {
		case err == io.EOF:
			return len(line) > 0, nil
		case err != nil:
			return false, err
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return false, fmt.Errorf("line %d: %w", n, err)
		}
		a.Add(&r)
	}
}
