<?php
// Runs the call of each line of standard input, and prints its result as a line.
require __DIR__ . '/RetentiveMemory.php';

while (($line = fgets(STDIN)) !== false) {
    $sent = json_decode($line, true);
    $memory = new RetentiveMemory($sent['url'], $sent['key'], $sent['store'], $sent['timeout']);
    try {
        $result = $memory->call($sent['block']['id'], $sent['block']['input']);
    } catch (RuntimeException $error) {
        $result = ['failed' => $error->getMessage()];
    }
    echo json_encode($result), "\n";
}
