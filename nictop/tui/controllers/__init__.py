"""What goes on behind the screens: hosts that are followed, diagnosis, runs, changes, recording, replay."""
