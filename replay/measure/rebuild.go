package measure

import "io"

// Rebuild adds the records of a run, in their order.
func (a *Aggregate) Rebuild(records Records) error {
	for {
		r, err := records.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		a.Add(r)
	}
}
