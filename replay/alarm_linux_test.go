package replay

// fail is a file that cannot be waited for.
func (a *fileAlarm) fail() {
	_ = a.file.Close()
	<-a.done
	a.fd = -1
}
