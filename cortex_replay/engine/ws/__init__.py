"""What goes over WebSockets, recorded and replayed. No sockets: messages come and go as texts and bytes."""
