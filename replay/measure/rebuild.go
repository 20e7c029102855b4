package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Rebuild adds the records of a file to the aggregate, as the run did that wrote it. A last line without its end is what a
// killed run left of a record: it is left out, and torn says so.
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
