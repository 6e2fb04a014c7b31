#include "apps/quarry/tool.h"

int main(int argc, char** argv) { return quarry::apps::run_tool(argc, argv); }
