//go:build !unix

package wire

// alive cannot look without reading here: a dead connection is found out by using it.
func (cn *conn) alive() bool { return true }
