package measure

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// PartInfo says which part of a load that several clients play a run is.
type PartInfo struct {
	Number   int `json:"number"`             // from 0
	Of       int `json:"of"`                 // parts
	Lanes    int `json:"concurrency"`        // of the whole load; 0: trees arrive without a cap
	Requests int `json:"requests,omitempty"` // bound of the whole load; 0: none
	Trees    int `json:"trees,omitempty"`    // bound of the whole load; 0: none

	Meeting string `json:"meeting,omitempty"` // id of the meeting of the parts, 16 hex digits; "": they have not met
}

// PartDir returns the name of the directory of a part, in that of the whole load.
func PartDir(number, of int) string { return fmt.Sprintf("part-%05d-of-%05d", number, of) }

// partDir matches what PartDir returns.
var partDir = regexp.MustCompile(`^part-([0-9]{5,9})-of-([0-9]{5,9})$`)

// ParsePartDir returns the part that a directory is of; false if its name is not one that PartDir returns.
func ParsePartDir(name string) (number, of int, ok bool) {
	m := partDir.FindStringSubmatch(name)
	if m == nil {
		return 0, 0, false
	}
	number, _ = strconv.Atoi(m[1]) // digits
	of, _ = strconv.Atoi(m[2])
	return number, of, true
}

// isPart reports whether the run plays a load with others.
func (info *RunInfo) isPart() bool { return info.Part != nil && info.Part.Of > 1 }

// row writes that a summary is of a part; nothing of a whole load.
func (p *PartInfo) row(b *strings.Builder) {
	if p == nil || p.Of < 2 {
		return
	}
	row(b, "part", "%d of %d, from 0: its rates, sums and lanes are of this part alone", p.Number, p.Of)
	row(b, "", "the whole load, and its verdict: agentx report of the directory above")
}

// MaxParts is the largest number of parts of a load: each plays a lane.
const MaxParts = 1 << 16
