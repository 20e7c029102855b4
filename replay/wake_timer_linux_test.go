package replay

// fail makes the file of the timer unreadable.
func (t *fileTimer) fail() {
	_ = t.file.Close()
	<-t.done
	t.fd = -1
}
