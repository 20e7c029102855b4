package measure

import "fmt"

// credits are those of the records read so far. No run gives one twice in a phase.
type credits [2]ordinalSet

// add adds the credit of a record. An error says that another record of the phase has it.
func (c *credits) add(r *Record) error {
	set := &c[0]
	if r.Phase == WarmupPhase {
		set = &c[1]
	}
	if r.Credit < maxCredit && !set.add(r.Credit) {
		return fmt.Errorf("credit: %d: an earlier line of the phase %s has it: records of two runs stand in one file", r.Credit, r.Phase)
	}
	return nil
}

// maxCredit bounds the credits that are looked at: a run of so many requests has a terabyte of records.
const maxCredit = 1 << 30
